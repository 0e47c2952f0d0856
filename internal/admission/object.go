// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// KindPod is the kind of pods. Objects of all other kinds create pods.
const KindPod = "Pod"

const (
	kindStatefulSet           = "StatefulSet"
	kindJob                   = "Job"
	kindCronJob               = "CronJob"
	kindReplicationController = "ReplicationController"
)

// Object is a pod, or an object that creates pods together with the one of these pods that
// has the longest host name.
type Object struct {
	Kind      string // such as Pod or Deployment
	Name      string // metadata.name, or an example if it is generated
	Operation Operation

	// Pod is the pod with the API's defaults. Pod.Path is its path in the document:
	// "spec.template." for a Deployment, "items[2]." for a Pod in a List.
	Pod policy.Pod

	// File is the path of the file that the object is in; "": not known.
	File string

	// Node is the node of a static pod, "" for other pods. No admission policy changes a
	// static pod, and its kubelet validates it like the API server.
	Node string

	// GeneratedName is set if the object has metadata.generateName instead of a name.
	GeneratedName bool

	// GenerateName is metadata.generateName. The API server validates it even if there is a
	// name.
	GenerateName string

	// ManualSelector is set if a Job has a selector of its own: its pods do not have its name
	// in a label.
	ManualSelector bool

	// HostAliases is spec.hostAliases of the pod.
	HostAliases []HostAlias

	// TemplateHostname is spec.hostname of the template of an Indexed Job, which the API server
	// validates although its controller replaces it.
	TemplateHostname string

	// Ordinal is set if the host names of the pods are Name and a number, like those of
	// a StatefulSet or an Indexed Job. Pod has the highest number.
	Ordinal bool
}

// Operation is the operation on an object.
type Operation string

// The operations, as in an AdmissionReview. The zero value is treated as Create.
const (
	Create Operation = "CREATE"
	Update Operation = "UPDATE"
)

// of converts a path in the object to a path in the document.
func (o *Object) of(field string) string {
	if strings.HasPrefix(o.Pod.Path, "items[") {
		item, _, _ := strings.Cut(o.Pod.Path, ".")
		return item + "." + field
	}
	return field
}

func (o *Object) nameField() string {
	if o.GeneratedName {
		return o.of("metadata.generateName")
	}
	return o.of("metadata.name")
}

// ofPod converts a path in the pod to a path in the document.
func (o *Object) ofPod(field string) string { return o.Pod.Path + field }

func (o *Object) hostnameField() string {
	if o.Ordinal || o.Pod.Hostname == "" {
		return o.nameField()
	}
	return o.ofPod("spec.hostname")
}

func (o *Object) subdomainField() string {
	if o.Kind == kindStatefulSet {
		return o.of("spec.serviceName")
	}
	return o.ofPod("spec.subdomain")
}

// Limits of the names of objects whose controller adds to them, in bytes.
const (
	// maxJobName: the pods have the label job-name, unless the Job has a selector of its own
	// (registry/batch/job/strategy.go, generateSelector).
	maxJobName = 63

	// maxCronJobName: its Jobs have a dash and ten characters in addition (batch/validation,
	// ValidateCronJobCreate).
	maxCronJobName = maxJobName - 11
)

// checkNames reports a name and a namespace that the API server refuses: names are DNS
// subdomains, that of a StatefulSet is a DNS label (core/validation, apps/validation and
// batch/validation). valid is false if it refuses the name.
func (c *check) checkNames() (valid bool) {
	c.refuseLabel(CodeInvalidNamespace, c.o.of("metadata.namespace"), "namespace", c.o.Pod.Namespace)
	// The API server validates a generateName with something after its final dash, and with the character before the dash
	// replaced (apimachinery/pkg/api/validation, maskTrailingDash). Of a ReplicationController it validates the completed
	// name only (core/validation, ValidateReplicationController).
	if prefix := c.o.GenerateName; prefix != "" && c.o.Kind != kindReplicationController {
		if len(prefix) > 1 && strings.HasSuffix(prefix, "-") {
			prefix = prefix[:len(prefix)-2] + "a"
		}
		if p, hint := c.syntaxProblem(prefix); p != "" {
			c.refuseValue(CodeInvalidName, c.o.of("metadata.generateName"), "generateName", c.o.GenerateName, p, hint)
			return false
		}
	}
	code := CodeInvalidName
	if c.o.Kind == KindPod {
		code = policy.CodeInvalidName
	}
	p, hint := c.nameProblem()
	c.refuseValue(code, c.o.nameField(), "name", c.o.Name, p, hint)
	return p == ""
}

// nameProblem returns why the API server refuses the name of the object, and how to correct
// it, or "".
func (c *check) nameProblem() (problem, hint string) {
	if problem, hint = c.syntaxProblem(c.o.Name); problem != "" {
		return problem, hint
	}
	switch {
	case c.o.Kind == kindCronJob:
		return lengthProblem(c.o.Name, maxCronJobName)
	case c.o.Kind == kindJob && !c.o.ManualSelector:
		return lengthProblem(c.o.Name, maxJobName)
	}
	return "", ""
}

// syntaxProblem returns why name is not a name of the object's kind, apart from limits that
// depend on other fields.
func (c *check) syntaxProblem(name string) (problem, hint string) {
	if c.o.Kind == kindStatefulSet {
		return labelProblem(name)
	}
	return subdomainProblem(name)
}

// subdomainProblem returns why s is not a DNS subdomain, and how to correct it, or "".
func subdomainProblem(s string) (problem, hint string) {
	if problem, hint = lengthProblem(s, fqdn.MaxName); problem == "" && fqdn.SubdomainProblems(s) != nil {
		return "is not a DNS subdomain", "use lower-case letters, digits, '-' and '.', with a letter or digit at both ends"
	}
	return problem, hint
}

func lengthProblem(s string, limit int) (problem, hint string) {
	over := len(s) - limit
	if over <= 0 {
		return "", ""
	}
	return fmt.Sprintf("has %d characters, %d is the limit", len(s), limit), fmt.Sprintf("shorten it by %d", over)
}

// HostAlias is an entry that a pod adds to its /etc/hosts.
type HostAlias struct {
	IP        string
	Hostnames []string
}

// checkHostAliases reports addresses and names that the API server refuses in
// spec.hostAliases (core/validation, ValidateHostAliases).
func (c *check) checkHostAliases(ctx context.Context) {
	for i, alias := range untilDone(ctx, c.o.HostAliases) {
		field := fmt.Sprintf("%s[%d]", c.o.ofPod("spec.hostAliases"), i)
		if p := addressProblem(alias.IP); p != "" {
			c.refuseValue(CodeInvalidHostAlias, field+".ip", "address", alias.IP, p, "give an IPv4 or IPv6 address")
		}
		for j, name := range untilDone(ctx, alias.Hostnames) {
			if p, hint := subdomainProblem(name); p != "" && !c.omitFinding(CodeInvalidHostAlias) {
				c.refuseValue(CodeInvalidHostAlias, fmt.Sprintf("%s.hostnames[%d]", field, j), "host name", name, p, hint)
			}
		}
	}
}

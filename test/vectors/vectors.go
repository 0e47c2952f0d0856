// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package vectors

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// Vector is an entry of the table.
type Vector struct {
	Name      string
	Operation string // CREATE or UPDATE
	Node      Node
	Object    json.RawMessage
	Findings  []Finding

	APIServer string // accepts or refuses
	Admission string // allows, warns or denies
	Policies  string // why the admission policies have no message where Admission has one; else ""
	Kubelet   string // of a pod that the API server accepts: starts, cuts or refuses; else ""
}

// Node holds the node facts of a vector.
type Node struct {
	ClusterDNS    []string
	ClusterDomain string
	ResolvConf    *string // the text of the host file; nil: unknown

	AllowedOverrides []string
}

// DefaultNode returns the Node of a vector that sets none.
func DefaultNode() Node {
	return Node{ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local"}
}

// Rules returns the rules for a cluster with such nodes.
func (n Node) Rules(t testing.TB) *admission.Rules {
	t.Helper()
	node := policy.Node{ClusterDomain: n.ClusterDomain, ResolvConf: "/etc/resolv.conf"}
	for _, p := range n.AllowedOverrides {
		node.AllowedOverrides = append(node.AllowedOverrides, policy.Policy(p))
	}
	for _, s := range n.ClusterDNS {
		node.ClusterDNS = append(node.ClusterDNS, netip.MustParseAddr(s))
	}
	var host *resolvconf.File
	if n.ResolvConf != nil {
		host = new(resolvconf.Parse(*n.ResolvConf))
	}
	return must.Get(admission.New(node, host))(t)
}

// Check returns the findings of rules in o.
func Check(t testing.TB, rules *admission.Rules, o admission.Object) []policy.Finding {
	t.Helper()
	return must.Get(rules.Check(t.Context(), o))(t)
}

// Finding is a finding in the object.
type Finding struct {
	Code, Severity, EnforcedBy, Field, Message, Hint string
}

//go:embed vectors.yaml
var files embed.FS

// Load returns the table.
func Load() ([]Vector, error) {
	table, err := files.ReadFile("vectors.yaml")
	if err != nil {
		return nil, err
	}
	var list []json.RawMessage
	if err := yaml.UnmarshalStrict(table, &list); err != nil {
		return nil, err
	}
	vectors := make([]Vector, len(list))
	for i, text := range list {
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			return nil, err
		}
		value = expand(value)
		if vector, ok := value.(map[string]any); ok {
			addContainers(vector["object"])
		}
		long, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		v := &vectors[i]
		*v = Vector{Operation: "CREATE", APIServer: "accepts", Admission: "allows", Node: DefaultNode()}
		if err := yaml.UnmarshalStrict(long, v); err != nil {
			return nil, fmt.Errorf("vector %d %q: %w", i, v.Name, err)
		}
	}
	return vectors, nil
}

var (
	repeated = regexp.MustCompile(`<(\d+)\*([^<>]*)>`)
	numbered = regexp.MustCompile(`^<(\d+) of ([^<>]*)>$`)
)

// expand expands the abbreviations of the table: "<3*ab>" is "ababab", and an item "<3 of d#>"
// of a list is the three items d1, d2 and d3.
func expand(value any) any {
	switch value := value.(type) {
	case string:
		return repeated.ReplaceAllStringFunc(value, func(s string) string {
			m := repeated.FindStringSubmatch(s)
			n, _ := strconv.Atoi(m[1])
			return strings.Repeat(m[2], n)
		})
	case map[string]any:
		for k, v := range value {
			value[k] = expand(v)
		}
	case []any:
		var all []any
		for _, v := range value {
			text, _ := v.(string)
			m := numbered.FindStringSubmatch(text)
			if m == nil {
				all = append(all, expand(v))
				continue
			}
			n, _ := strconv.Atoi(m[1])
			for i := range n {
				all = append(all, strings.ReplaceAll(m[2], "#", strconv.Itoa(i+1)))
			}
		}
		return all
	}
	return value
}

// addContainers adds a container to the pods of object. The API server requires one, and the
// table leaves it out.
func addContainers(object any) {
	o, _ := object.(map[string]any)
	items, _ := o["items"].([]any)
	for _, item := range items {
		addContainers(item)
	}
	if items != nil {
		return
	}
	spec := child(o, "spec")
	switch o["kind"] {
	case "Pod":
	case "CronJob":
		spec = child(child(child(child(spec, "jobTemplate"), "spec"), "template"), "spec")
	default:
		spec = child(child(spec, "template"), "spec")
	}
	if spec["containers"] == nil {
		spec["containers"] = []any{map[string]any{"name": "c", "image": "registry.example/c"}}
	}
}

// child returns the mapping at key, and creates it if it does not exist.
func child(o map[string]any, key string) map[string]any {
	inner, ok := o[key].(map[string]any)
	if !ok {
		inner = map[string]any{}
		o[key] = inner
	}
	return inner
}

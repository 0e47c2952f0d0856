// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
)

//go:embed defaults/*.yaml
var defaults embed.FS

// Kinds returns the kinds of configuration files.
func Kinds() []string { return []string{KindShim, KindAgent, KindDNS, KindNodeCache, KindWebhook} }

// Defaults returns a configuration file of the given kind that has and explains every
// field, at its default.
func Defaults(kind string) ([]byte, error) {
	text, err := defaults.ReadFile("defaults/" + kind + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("unknown kind %q: want %s", kind, strings.Join(Kinds(), ", "))
	}
	return text, nil
}

// ReadTypeMeta returns the apiVersion and kind of data, which is YAML or JSON.
func ReadTypeMeta(data []byte) (TypeMeta, error) {
	var t TypeMeta
	js, err := toJSON(data)
	if err != nil {
		return t, err
	}
	if err := document.Decode(js, &t); err != nil {
		return t, fmt.Errorf("not a configuration file: %w", err)
	}
	return t, nil
}

// toJSON rejects a second YAML document, which the decoder would ignore.
func toJSON(data []byte) ([]byte, error) {
	begun := false
	for line := range bytes.Lines(data) {
		text := bytes.TrimSpace(line)
		switch {
		case bytes.HasPrefix(line, []byte("---")):
			if begun {
				return nil, errors.New("holds more than one YAML document")
			}
		case len(text) > 0 && text[0] != '#':
			begun = true
		}
	}
	return document.JSON(data, 1)
}

// ParseShim decodes a ShimConfiguration strictly. The error joins all problems,
// each with its field.
func ParseShim(data []byte) (ShimConfiguration, error) {
	var c ShimConfiguration
	err := decode(data, KindShim, &c.TypeMeta, &c)
	return c, err
}

// ParseAgent decodes an AgentConfiguration strictly. The error joins all problems,
// each with its field.
func ParseAgent(data []byte) (AgentConfiguration, error) {
	var c AgentConfiguration
	err := decode(data, KindAgent, &c.TypeMeta, &c)
	return c, err
}

// ParseDNS decodes a DNSConfiguration strictly. The error joins all problems, each
// with its field.
func ParseDNS(data []byte) (DNSConfiguration, error) {
	var c DNSConfiguration
	err := decode(data, KindDNS, &c.TypeMeta, &c)
	return c, err
}

// ParseWebhook decodes a WebhookConfiguration strictly. The error joins all problems,
// each with its field.
func ParseWebhook(data []byte) (WebhookConfiguration, error) {
	var c WebhookConfiguration
	err := decode(data, KindWebhook, &c.TypeMeta, &c)
	return c, err
}

// ParseNodeCache decodes a NodeCacheConfiguration strictly. The error joins all problems,
// each with its field.
func ParseNodeCache(data []byte) (NodeCacheConfiguration, error) {
	var c NodeCacheConfiguration
	err := decode(data, KindNodeCache, &c.TypeMeta, &c)
	return c, err
}

// removedFields has what replaces a field of an earlier release.
var removedFields = map[string]string{
	"limits.maxConcurrent": byMaxQueries, "limits.clusterShare": byMaxQueries, "limits.reverseShare": byMaxQueries,
	"limits.searchShare": byMaxQueries, "limits.searchRate": byMaxQueries, "limits.searchBurst": byMaxQueries,
	"limits.maxTCPQueries": byMaxQueries, "limits.maxConnectionQueries": byMaxQueries,
	"limits.maxConnections": byMaxMemory, "limits.maxClientConnections": byMaxMemory,
	"refresh": byAgent, "refreshDryRun": byAgent, "refreshRate": byAgent, "verifyInterval": byAgent,
	"sandboxDirectories": byAgent, "statusSocket": byAgent,
	"limits.maxReplyMiB": byMaxMemory, "limits.maxClientReplyMiB": byMaxMemory,
	"limits.maxCacheEntries": byMaxMemory, "limits.maxCacheMiB": byMaxMemory,
	"selfSigned": byTLS, "namespace": byTLS,
}

const (
	byAgent      = "it is a field of AgentConfiguration: the agent keeps running pods up to date (docs/nodes.md#with-the-shim)"
	byMaxQueries = "limits.maxQueries has replaced it"
	byMaxMemory  = "limits.maxMemory has replaced it"
	byTLS        = "tls.certFile and tls.keyFile have replaced it: cert-manager or the Helm chart makes these files"
)

func decode(data []byte, kind string, meta *TypeMeta, c any) error {
	js, err := toJSON(data)
	if err != nil {
		return err
	}
	problems := document.DecodeStrict(js, c)
	for i, problem := range problems {
		var unknown interface{ FieldPath() string }
		if errors.As(problem, &unknown) && removedFields[unknown.FieldPath()] != "" {
			problems[i] = fmt.Errorf("%w: %s", problem, removedFields[unknown.FieldPath()])
		}
	}
	if t, ok := errors.AsType[*document.TypeError](errors.Join(problems...)); ok && t.Field == "" {
		return t // the document is not a mapping: it has no fields
	}
	if meta.Kind != "" && meta.Kind != kind {
		return wrongKind(meta.Kind, kind) // its fields are those of another kind
	}
	if meta.APIVersion != GroupVersion {
		problems = append(problems,
			&document.TypeError{Field: "apiVersion", Problem: fmt.Sprintf("is %q, must be %q", meta.APIVersion, GroupVersion)})
	}
	if meta.Kind == "" {
		problems = append(problems, wrongKind("", kind))
	}
	return errors.Join(problems...)
}

// wrongKind returns the error about a file of kind got where kind want is read.
func wrongKind(got, want string) error {
	problem := fmt.Sprintf("is %q, must be %q", got, want)
	if got == "KubeletConfiguration" {
		problem += ": the file of a kubelet is for --kubelet-config"
	}
	return &document.TypeError{Field: "kind", Problem: problem}
}

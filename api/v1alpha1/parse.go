// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
)

// ReadTypeMeta returns the type that data, YAML or JSON, says it has.
func ReadTypeMeta(data []byte) (TypeMeta, error) {
	var t TypeMeta
	js, err := toJSON(data)
	if err != nil {
		return t, err
	}
	if err := document.Decode(js, &t); err != nil {
		return t, fmt.Errorf("is not a configuration file: %w", err)
	}
	return t, nil
}

// toJSON refuses what follows a first document: the decoder would not see it.
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

func decode(data []byte, kind string, meta *TypeMeta, c any) error {
	js, err := toJSON(data)
	if err != nil {
		return err
	}
	problems := document.DecodeStrict(js, c)
	if t, ok := errors.AsType[*document.TypeError](errors.Join(problems...)); ok && t.Field == "" {
		return t // there is no field to look at
	}
	if meta.APIVersion != GroupVersion {
		problems = append(problems, fmt.Errorf("apiVersion: is %q, must be %q", meta.APIVersion, GroupVersion))
	}
	if meta.Kind != kind {
		problems = append(problems, fmt.Errorf("kind: is %q, must be %q", meta.Kind, kind))
	}
	return errors.Join(problems...)
}

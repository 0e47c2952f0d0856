// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"errors"
	"fmt"

	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// ReadTypeMeta returns the type that data, YAML or JSON, says it has.
func ReadTypeMeta(data []byte) (TypeMeta, error) {
	var t TypeMeta
	js, err := toJSON(data)
	if err != nil {
		return t, err
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(js, &t); err != nil {
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
	return yaml.YAMLToJSONStrict(data)
}

// ParseShim decodes a ShimConfiguration strictly. The error joins all problems,
// each with its field.
func ParseShim(data []byte) (ShimConfiguration, error) {
	var c ShimConfiguration
	err := decode(data, KindShim, &c.TypeMeta, &c)
	return c, err
}

func decode(data []byte, kind string, meta *TypeMeta, c any) error {
	js, err := toJSON(data)
	if err != nil {
		return err
	}
	problems, err := json.UnmarshalStrict(js, c)
	if err != nil {
		return err
	}
	if meta.APIVersion != GroupVersion {
		problems = append(problems, fmt.Errorf("apiVersion: is %q, must be %q", meta.APIVersion, GroupVersion))
	}
	if meta.Kind != kind {
		problems = append(problems, fmt.Errorf("kind: is %q, must be %q", meta.Kind, kind))
	}
	return errors.Join(problems...)
}

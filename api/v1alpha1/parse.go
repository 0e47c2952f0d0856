// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"errors"
	"fmt"

	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// ReadTypeMeta returns the type that data, YAML or JSON, says it has.
func ReadTypeMeta(data []byte) (TypeMeta, error) {
	var t TypeMeta
	js, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return t, err
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(js, &t); err != nil {
		return t, fmt.Errorf("is not a configuration file: %w", err)
	}
	return t, nil
}

// ParseShim decodes a ShimConfiguration strictly. The error joins all problems,
// each with its field.
func ParseShim(data []byte) (ShimConfiguration, error) {
	var c ShimConfiguration
	err := decode(data, KindShim, &c.TypeMeta, &c)
	return c, err
}

func decode(data []byte, kind string, meta *TypeMeta, c any) error {
	js, err := yaml.YAMLToJSONStrict(data)
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

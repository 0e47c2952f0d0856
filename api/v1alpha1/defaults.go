// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"embed"
	"fmt"
)

//go:embed defaults/*.yaml
var defaults embed.FS

// Kinds lists the kinds of configuration files.
func Kinds() []string { return []string{KindShim, KindDNS, KindNodeCache, KindWebhook} }

// Defaults returns a configuration file of the given kind that names and explains
// every field and changes nothing.
func Defaults(kind string) ([]byte, error) {
	text, err := defaults.ReadFile("defaults/" + kind + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("there is no kind %q, only %q", kind, Kinds())
	}
	return text, nil
}

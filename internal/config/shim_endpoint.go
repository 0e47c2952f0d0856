// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

// maxSocketPath is the longest path of a unix socket in octets: sun_path without the final NUL
// (unix(7)).
const maxSocketPath = 107

// parseSocket parses a unix socket: an absolute path with or without the scheme unix, as the
// kubelet accepts it. It sets *text to the form unix://PATH.
func parseSocket(text *string, defaultText string) error {
	*text = cmp.Or(*text, defaultText)
	path := strings.TrimPrefix(strings.TrimPrefix(*text, "unix:"), "//")
	switch {
	case !filepath.IsAbs(path):
		return fmt.Errorf("%q is not a unix socket: want an absolute path or unix:///PATH", *text)
	case len(path) > maxSocketPath:
		return fmt.Errorf("%q: the path has %d octets, a unix socket can have %d", *text, len(path), maxSocketPath)
	}
	*text = "unix://" + path
	return nil
}

// SocketPath returns the path of a socket in a validated configuration.
func SocketPath(endpoint string) string { return strings.TrimPrefix(endpoint, "unix://") }

// Endpoints are the fields with which a shim can serve although the rest of its configuration
// is invalid.
type Endpoints struct {
	Listen, Runtime string // unix://PATH
	HTTP            string // "": none
}

// Endpoints returns the endpoints of c.
func (c *Shim) Endpoints() Endpoints { return Endpoints{c.Listen, c.RuntimeEndpoint, c.HTTP} }

// LoadEndpoints returns the endpoints when Load fails. Each comes from its flag, the file, or
// others, in this order, and "" in all is the default. Errors in other fields of the file do
// not matter. The error is about Listen and Runtime only; an unusable HTTP is left out.
func LoadEndpoints(s *Source[Shim], others ...Endpoints) (Endpoints, error) {
	var c Shim
	c.Listen, c.RuntimeEndpoint, c.HTTP = readEndpoints(s.path)
	s.applyFlags(&c)
	for _, o := range others {
		c.Listen, c.RuntimeEndpoint, c.HTTP = cmp.Or(c.Listen, o.Listen), cmp.Or(c.RuntimeEndpoint, o.Runtime), cmp.Or(c.HTTP, o.HTTP)
	}
	if daemon.CheckAddress(c.HTTP) != nil {
		c.HTTP = ""
	}
	if err := parseSocket(&c.Listen, v1alpha1.DefaultShimListen); err != nil {
		return Endpoints{}, &kube.InputError{Location: s.origin("listen"), Err: err}
	}
	if err := parseSocket(&c.RuntimeEndpoint, v1alpha1.DefaultRuntimeEndpoint); err != nil {
		return Endpoints{}, &kube.InputError{Location: s.origin("runtimeEndpoint"), Err: err}
	}
	return c.Endpoints(), nil
}

// readEndpoints returns the endpoints in a file, as far as it can be decoded.
func readEndpoints(path string) (listen, runtime, http string) {
	data, err := readLimited(path)
	if err != nil {
		return "", "", ""
	}
	js, err := document.LenientJSON(data)
	if err != nil {
		return "", "", ""
	}
	var fields map[string]any
	_ = document.Decode(js, &fields) // a file that is not a mapping has no fields
	text := func(name string) string {
		s, _ := fields[name].(string)
		return s
	}
	return text("listen"), text("runtimeEndpoint"), text("http")
}

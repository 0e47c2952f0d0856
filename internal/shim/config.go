// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/node"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodefacts"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Config is a validated ShimConfiguration.
type Config struct {
	v1alpha1.ShimConfiguration

	Node   nodefacts.Node
	Engine *policy.Engine
}

// Kind describes the file of the command shim.
func Kind() *config.Kind[Config] {
	return &config.Kind[Config]{
		Check: func(c *Config, p *config.Problems) {
			nodefacts.CheckRules(&c.ShimConfiguration.Node, p)
			if p.Of("mode") == nil {
				p.Add("onUnknownPod", checkOnUnknownPod(c))
			}
		},
		Finish: func(c *Config, s *config.Source[Config]) (err error) {
			c.Node, c.Engine, err = nodefacts.NewServerNode(c.NodeServerConfiguration, s)
			return err
		},
	}
}

// The values of onUnknownPod.
const (
	onUnknownPass = "Passthrough"
	onUnknownFail = "Fail"
)

func checkOnUnknownPod(c *Config) error {
	switch {
	case c.OnUnknownPod != onUnknownFail:
		return nil
	case c.Mode() == cri.Observe:
		return fmt.Errorf("%q: mode Observe changes nothing: want %q", onUnknownFail, onUnknownPass)
	case c.Kubeconfig == "":
		return fmt.Errorf("%q: without a kubeconfig no pod of the API server would start: set kubeconfig", onUnknownFail)
	}
	return nil
}

// FailUnknown reports whether requests for pods that cannot be looked up fail.
func (c *Config) FailUnknown() bool {
	return c.OnUnknownPod == onUnknownFail || c.OnUnknownPod == "" && c.Mode() == cri.Force && c.Kubeconfig != ""
}

// Mode returns the mode of the shim.
func (c *Config) Mode() cri.Mode { return cri.Mode(c.ShimConfiguration.Mode) }

// WithFacts returns the configuration with the node facts that were read from the kubelet's
// file, and without that file.
func (c *Config) WithFacts() v1alpha1.ShimConfiguration {
	out := c.ShimConfiguration
	c.Node.FillFacts(&out.Node)
	return out
}

// Endpoints are the fields with which a shim can serve although the rest of its configuration
// is invalid.
type Endpoints struct {
	Listen, Runtime string // unix://PATH
	HTTP            string // "": none
}

// Endpoints returns the endpoints of c.
func (c *Config) Endpoints() Endpoints { return Endpoints{c.Listen, c.RuntimeEndpoint, c.HTTP} }

// LoadEndpoints returns the endpoints when Load fails. Each comes from its flag, the file, or
// others, in this order, and "" in all is the default. Errors in other fields of the file do
// not matter. The error is about Listen and Runtime only; an unusable HTTP is left out.
func LoadEndpoints(s *config.Source[Config], others ...Endpoints) (Endpoints, error) {
	var c Config
	fields := readFields(s.Path())
	c.Listen, c.RuntimeEndpoint, c.HTTP = fields["listen"], fields["runtimeEndpoint"], fields["http"]
	s.ApplyFlags(&c)
	for _, o := range others {
		c.Listen, c.RuntimeEndpoint, c.HTTP = cmp.Or(c.Listen, o.Listen), cmp.Or(c.RuntimeEndpoint, o.Runtime), cmp.Or(c.HTTP, o.HTTP)
	}
	problems := s.CheckValues(&c)
	for _, path := range []string{"listen", "runtimeEndpoint"} {
		if err := problems.Of(path); err != nil {
			return Endpoints{}, err
		}
	}
	return c.Endpoints(), nil
}

// LogFormat returns the format of the log: that of the flag or of the file, which may be invalid.
func LogFormat(s *config.Source[Config]) string {
	var c Config
	c.LogFormat = readFields(s.Path())["logFormat"]
	s.ApplyFlags(&c)
	s.CheckValues(&c) // an invalid format becomes the default
	return c.LogFormat
}

// readFields returns the texts in a file, as far as it can be decoded.
func readFields(path string) map[string]string {
	texts := map[string]string{}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() { // a pipe can be read only once
		return texts
	}
	f, err := config.ReadFile(path)
	if err != nil {
		return texts
	}
	js, err := document.LenientJSON(f.Text)
	if err != nil {
		return texts
	}
	var fields map[string]any
	_ = document.Decode(js, &fields) // a file that is not a mapping has no fields
	for name, value := range fields {
		texts[name], _ = value.(string)
	}
	return texts
}

// Check builds what the server builds for a valid configuration, and returns the errors. A container
// runtime or an API server that does not run is not an error.
func Check(c Config) error {
	var problems []error
	if err := cri.CheckEndpoints(config.SocketPath(c.Listen), config.SocketPath(c.RuntimeEndpoint)); err != nil {
		problems = append(problems, err)
	}
	// Another user than root does not own the directory of a shim that runs as root.
	if os.Geteuid() == 0 {
		problems = append(problems, cri.CheckListen(config.SocketPath(c.Listen)))
	}
	if _, err := node.NewClient(c.Kubeconfig, ""); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/node"
	"github.com/dnsconfigurer/dnsconfigurer/internal/shim"
)

// Status is the state of the shim on a node.
type Status struct {
	Kubelet KubeletStatus      `json:"kubelet"`
	Shim    ShimStatus         `json:"shim"`
	Bypass  *shim.BypassRecord `json:"bypass"` // null: off

	Agent      *v1alpha1.AgentStatus `json:"agent"` // null: none runs
	AgentError string                `json:"agentError,omitempty"`
}

// KubeletStatus is what the kubelet's files configure; a running kubelet read them when it
// started.
type KubeletStatus struct {
	Unit     string `json:"unit"`
	Endpoint string `json:"endpoint"`
	Origin   string `json:"origin"` // "": the default
	UsesShim bool   `json:"usesShim"`
	Error    string `json:"error,omitempty"`
}

// ShimStatus is the state of the shim.
type ShimStatus struct {
	Listen   string   `json:"listen"`
	Runtime  string   `json:"runtime"`
	Mode     string   `json:"mode"` // of the configuration file
	Serves   bool     `json:"serves"`
	Problems []string `json:"problems"`
}

// OK reports whether the kubelet uses a shim without problems, or none and an agent runs without
// problems.
func (s *Status) OK() bool {
	if s.Agent != nil && !s.Kubelet.UsesShim && s.Kubelet.Error == "" {
		return len(s.Agent.Problems) == 0 && s.AgentError == ""
	}
	return s.Kubelet.UsesShim && s.Shim.Serves && len(s.Shim.Problems) == 0 && s.Bypass == nil
}

// statusTimeout limits the calls of the shim.
const statusTimeout = 10 * time.Second

// Status returns the state of the node. Shim and agent are only called if the node is this machine.
func (i *Installer) Status(ctx context.Context, agent node.StatusClient) Status {
	s := i.shimStatus(ctx)
	if path, err := i.Root.Path(i.Config); err == nil {
		if c, err := shim.Kind().FromFile(path).Load(); err == nil {
			s.Shim.Mode = string(c.Mode())
		}
	}
	if !i.Root.IsThisMachine() {
		return s
	}
	switch status, err := agent.Status(ctx); {
	case err == nil:
		s.Agent = &status
	case !errors.Is(err, node.ErrNotServed):
		s.AgentError = err.Error()
	}
	return s
}

// shimStatus is Status without the agent and the mode.
func (i *Installer) shimStatus(ctx context.Context) Status {
	s := Status{Kubelet: KubeletStatus{Unit: i.KubeletUnit}, Shim: ShimStatus{Listen: i.Listen, Runtime: i.Runtime, Problems: []string{}}}
	if k, err := ReadKubelet(i.Root, i.KubeletUnit); err != nil {
		s.Kubelet.Error = err.Error()
	} else {
		s.Kubelet.Endpoint, s.Kubelet.Origin, s.Kubelet.UsesShim = k.Endpoint, k.Origin, k.Uses(config.SocketPath(i.Listen))
	}
	problem := func(err error) {
		if err != nil {
			s.Shim.Problems = append(s.Shim.Problems, err.Error())
		}
	}
	var err error
	s.Bypass, err = i.Bypass.Active()
	problem(err)
	if !i.Root.IsThisMachine() || s.Bypass != nil {
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	err = i.Check(ctx)
	s.Shim.Serves = err == nil
	problem(err)
	if s.Shim.Serves && i.HTTP != "" {
		lines, err := health(ctx, i.HTTP)
		problem(err)
		s.Shim.Problems = append(s.Shim.Problems, lines...)
	}
	return s
}

// health returns the problems that the shim reports at address.
func health(ctx context.Context, address string) ([]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz?verbose", nil)
	if err != nil {
		return nil, err
	}
	reply, err := http.DefaultClient.Do(request)
	if failure, ok := errors.AsType[*url.Error](err); ok {
		err = failure.Err // without the URL, which the next line has
	}
	if err != nil {
		return nil, fmt.Errorf("health of the shim at http://%s: %w", address, err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(io.LimitReader(reply.Body, 64<<10))
	if err != nil {
		return nil, fmt.Errorf("health of the shim at http://%s: %w", address, err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if lines[0] == "ok" {
		lines = lines[1:]
	}
	return lines, nil
}

// String returns s as text.
func (s *Status) String() string {
	var out strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&out, "%-9s "+format+"\n", append([]any{name}, args...)...)
	}
	switch k := s.Kubelet; {
	case k.Error != "":
		line("kubelet:", "%s", k.Error)
	case k.UsesShim:
		line("kubelet:", "configured with the shim, in %s", k.Origin)
	default:
		line("kubelet:", "configured with %s, without the shim", k.Endpoint)
	}
	state := "does not serve"
	if s.Shim.Serves {
		state = "forwards calls to " + s.Shim.Runtime
	}
	line("shim:", "%s", state)
	if s.Shim.Mode != "" {
		line("mode:", "%s", s.Shim.Mode)
	}
	if s.Bypass == nil {
		line("bypass:", "off")
	} else {
		line("bypass:", "on since %s: %s; to return: dnsconfigurer bypass off", s.Bypass.Since.Format(time.RFC3339), s.Bypass.Reason)
	}
	for _, p := range s.Shim.Problems {
		line("problem:", "%s", p)
	}
	s.writeAgent(line)
	return out.String()
}

// writeAgent writes the state of the agent with line.
func (s *Status) writeAgent(line func(name, format string, args ...any)) {
	if s.AgentError != "" {
		line("agent:", "%s", s.AgentError)
	}
	a := s.Agent
	if a == nil {
		return
	}
	line("agent:", "%d pods, mode %s, refresh %s", a.Pods, a.Mode, a.Refresh)
	if f := a.NodeFacts; f != nil {
		line("facts:", "cluster DNS %s, domain %q, host file %q",
			strings.Join(f.ClusterDNS, ", "), f.ClusterDomain, f.ResolvConf)
	}
	for _, drift := range slices.Sorted(maps.Keys(a.Drift)) {
		line("drift:", "%d pods: %s", a.Drift[drift], drift)
	}
	for _, p := range a.Problems {
		line("problem:", "%s: %s", a.Component, p)
	}
}

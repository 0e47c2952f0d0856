// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Taint is a taint of a node. A node has at most one of a key and an effect.
type Taint struct{ Key, Value, Effect string }

// String returns the form of the kubelet's --register-with-taints.
func (t Taint) String() string { return t.Key + "=" + t.Value + ":" + t.Effect }

// taintEffects are the effects that the API server accepts.
var taintEffects = []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}

// parseTaint parses KEY=VALUE:EFFECT, as in the kubelet's --register-with-taints, or KEY:EFFECT.
func parseTaint(text string) (Taint, error) {
	rest, effect, ok := strings.Cut(text, ":")
	key, value, _ := strings.Cut(rest, "=")
	switch {
	case !ok || key == "":
		return Taint{}, fmt.Errorf("%q: want KEY=VALUE:EFFECT or KEY:EFFECT, such as "+
			"dnsconfigurer.dev/agent-not-ready:NoSchedule", text)
	case !slices.Contains(taintEffects, effect):
		return Taint{}, fmt.Errorf("%q: the effect is %q, want %s", text, effect, strings.Join(taintEffects, ", "))
	}
	if problems := validation.IsQualifiedName(key); problems != nil {
		return Taint{}, fmt.Errorf("%q: the key is not valid: %s", text, problems[0])
	}
	if problems := validation.IsValidLabelValue(value); problems != nil {
		return Taint{}, fmt.Errorf("%q: the value is not valid: %s", text, problems[0])
	}
	return Taint{key, value, effect}, nil
}

// checkStartupTaint sets c.Taint. The taint is removed in the API server.
func checkStartupTaint(c *Agent) (err error) {
	if c.StartupTaint == "" {
		return nil
	}
	c.Taint, err = parseTaint(c.StartupTaint)
	if err == nil && c.Kubeconfig == "" && !c.InCluster {
		err = errors.New("without the API server no taint can be removed: set inCluster or kubeconfig")
	}
	return err
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// Kubectl is a kubectl of the API server's version, in an administrator's hands. Its
// methods may be called at once.
type Kubectl struct {
	program string
	env     []string
}

// Kubectl returns a kubectl for the control plane, which has to be ready.
func (c *Cluster) Kubectl(t testing.TB) *Kubectl {
	t.Helper()
	return &Kubectl{
		program: build(t, "kubectl"),
		// HOME: the discovery cache of kubectl.
		env: append(os.Environ(), "KUBECONFIG="+c.KubeconfigFile(), "HOME="+c.dir, "KUBECTL_KUBERC=false"),
	}
}

// Program returns the path of kubectl.
func (k *Kubectl) Program() string { return k.program }

// Run runs kubectl with a standard input. It returns the standard output and, in stderr, the
// warnings of the API server and the messages of kubectl. The error is kubectl's exit code.
func (k *Kubectl) Run(ctx context.Context, stdin string, args ...string) (stdout, stderr string, err error) {
	var out, problems strings.Builder
	cmd := exec.CommandContext(ctx, k.program, args...)
	cmd.Env = k.env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &problems
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("kubectl %s: %w\n%s%s", strings.Join(args, " "), err, &out, &problems)
	}
	return out.String(), problems.String(), err
}

// MustRun is Run, and fails the test at an error.
func (k *Kubectl) MustRun(t testing.TB, stdin string, args ...string) (stdout string) {
	t.Helper()
	out, _, err := k.Run(t.Context(), stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Verdict is the response of the API server to an object.
type Verdict struct {
	Refused  string   // the reason; "": it is accepted
	Warnings []string // without the word Warning
}

// DryRun returns the verdict on the creation of the object in a manifest, without creating it.
func (k *Kubectl) DryRun(ctx context.Context, manifest string) Verdict {
	var v Verdict
	_, stderr, err := k.Run(ctx, manifest, "create", "--dry-run=server", "-f", "-")
	for line := range strings.Lines(stderr) {
		if warning, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "Warning: "); ok {
			v.Warnings = append(v.Warnings, warning)
		}
	}
	if err != nil {
		v.Refused = err.Error()
	}
	return v
}

// Enforce applies admission policies, and returns when the API server enforces them, as its
// verdict on probe shows: after a second on an idle machine.
func (k *Kubectl) Enforce(t testing.TB, manifests, probe string, enforced func(Verdict) bool) {
	t.Helper()
	k.MustRun(t, manifests, "apply", "-f", "-")
	poll.UntilNil(t, "the policies", func() error {
		if v := k.DryRun(t.Context(), probe); !enforced(v) {
			return fmt.Errorf("not enforced: %+v", v)
		}
		return nil
	})
}

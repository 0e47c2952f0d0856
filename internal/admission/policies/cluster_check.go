// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/client"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// A ClusterCheck has the values of the flags of --check.
type ClusterCheck struct {
	Kubeconfig string // file; "": as kubectl
	Namespace  string // of the objects
}

// Register adds the flags.
func (c *ClusterCheck) Register(flags *pflag.FlagSet) {
	flags.StringVar(&c.Kubeconfig, "kubeconfig", "",
		"kubeconfig `FILE`, for --check; empty: as kubectl, $KUBECONFIG, ~/.kube/config or the pod's service account")
	flags.StringVarP(&c.Namespace, "namespace", "n", "default",
		"`NAMESPACE` of the objects of --check; not kube-system, which the policies skip")
}

// Run writes what the cluster does with the objects of checkCluster.
func (c ClusterCheck) Run(ctx context.Context, userAgent string, out io.Writer) error {
	if fqdn.LabelProblems(c.Namespace) != nil || c.Namespace == "kube-system" {
		return usage.Errorf("--namespace: %q: want a namespace other than kube-system", c.Namespace)
	}
	cfg, err := client.LoadUserConfig(c.Kubeconfig, "", userAgent)
	if err != nil {
		return err
	}
	outcomes, failed := checkCluster(ctx, cfg, c.Namespace)
	for _, o := range outcomes {
		if _, err := fmt.Fprintln(out, o); err != nil {
			return err
		}
	}
	return failed
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodefacts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
)

// TestFlags_HostAssumed: without a file that describes the node its resolv.conf is that of
// this machine.
func TestFlags_HostAssumed(t *testing.T) {
	kubelet := filepath.Join(t.TempDir(), "kubelet.yaml")
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	if err := os.WriteFile(kubelet, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want bool
	}{
		{nil, true},
		{[]string{"--cluster-domain", "a.example"}, true},
		{[]string{"--resolv-conf", "/etc/resolv.conf"}, false},
		{[]string{"--resolv-conf="}, false},
		{[]string{"--kubelet-config", kubelet}, false},
	} {
		var f Flags
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Register(flags)
		if err := flags.Parse(tt.args); err != nil {
			t.Fatal(err)
		}
		node, err := f.Load()
		if err != nil || node.HostAssumed != tt.want {
			t.Errorf("%q: %v, want %v, %v", tt.args, node.HostAssumed, tt.want, err)
		}
	}
}

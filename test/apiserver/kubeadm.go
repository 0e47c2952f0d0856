// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// kubeadmConfig has an address: kubeadm looks for that of the default route, which a machine may not have.
const kubeadmConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: 192.0.2.1}
nodeRegistration: {name: cp-1}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.0
networking: {serviceSubnet: ` + ServiceRange4 + `, podSubnet: 10.244.0.0/16}
`

// Kubeadm runs a phase of "kubeadm init". With a dry run, what it would write to a node is in the directory that it returns.
func Kubeadm(t testing.TB, phase ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	config := filepath.Join(t.TempDir(), "kubeadm.yaml")
	must.Succeed(t, os.WriteFile(config, []byte(kubeadmConfig), 0o600))
	cmd := exec.Command(build(t, "kubeadm"), append([]string{"init", "phase", "--config", config}, phase...)...)
	cmd.Env = append(os.Environ(), "KUBEADM_INIT_DRYRUN_DIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubeadm %v: %v\n%s", phase, err, out)
	}
	return dir
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodetools

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// KubeletConfiguration has the settings that a kubelet needs on a machine of a test: no
// resources are reserved, monitored or cleaned up, and everybody may use its server. Tests
// append their own settings, and replace CGROUP by the name of a cgroup of MakeCgroup.
const KubeletConfiguration = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
fileCheckFrequency: 1s
cgroupRoot: CGROUP
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%", imagefs.inodesFree: "0%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
localStorageCapacityIsolation: false
makeIPTablesUtilChains: false
`

// kernelSettings are the settings that a kubelet changes (setupKernelTunables in
// pkg/kubelet/cm). They have no namespace.
const kernelSettings = "vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops " +
	"kernel/keys/root_maxkeys kernel/keys/root_maxbytes"

// CopyKernelSettings are lines of a shell script that replace the settings of the kernel that
// a kubelet changes by copies. They run in a mount namespace with its own /run, and are a
// no-op the second time.
const CopyKernelSettings = `mkdir -p /run/sysctl
for s in ` + kernelSettings + `; do
  f=/run/sysctl/$(basename $s)
  [ -e $f ] || { cat /proc/sys/$s >$f && mount --bind $f /proc/sys/$s; } || exit 1
done
`

// GuardKernelSettings fails the test if one of the settings that CopyKernelSettings copies has
// changed when the test ends.
func GuardKernelSettings(t testing.TB) {
	t.Helper()
	before := readKernelSettings(t)
	t.Cleanup(func() {
		if after := readKernelSettings(t); !maps.Equal(before, after) {
			t.Errorf("the kernel's settings: %v, want %v", after, before)
		}
	})
}

func readKernelSettings(t testing.TB) map[string]string {
	t.Helper()
	settings := map[string]string{}
	for _, name := range strings.Fields(kernelSettings) {
		value := must.Get(os.ReadFile(filepath.Join("/proc/sys", name)))(t)
		settings[name] = string(value)
	}
	return settings
}

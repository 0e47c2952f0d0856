// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodetools

// ContainerdConfig is a configuration of containerd 1.6 and later for the images of
// BuildImages. The last table is that of the CNI: a test may append its other settings.
const ContainerdConfig = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + PauseImage + `"
  disable_apparmor = true
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
`

// BridgeNetwork is a CNI configuration: pods have addresses of 10.88.0.0/24 at a bridge.
const BridgeNetwork = `{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods0", "isDefaultGateway": true, "ipam": {"type": "host-local",
    "subnet": "10.88.0.0/24", "dataDir": "/run/ipam"}}
]}`

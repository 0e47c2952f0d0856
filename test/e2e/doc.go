// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the whole product on a cluster of one node. Every component is the
// real one, and pods are created through the API:
//
//	kubectl, helm --> kube-apiserver, etcd <-- controller manager, scheduler
//	                        |
//	                     kubelet --CRI--> dnsconfigurer shim --CRI--> containerd 2
//	                        |                                            |
//	                    kube-proxy                                     pods, with
//	                 (Service addresses)                     the C libraries' lookups
//
// The image is the released one, and helm installs the chart: the cluster DNS at the
// address of its Service, the node cache, and the admission policies. The shim has the
// command line of its systemd unit.
//
// Then the kubelet is connected to containerd directly, and the chart installs agent and
// NRI relay. The same pods get the same DNS. Then the chart is uninstalled, and the commands of
// docs/quick-start.md are run.
//
// The test runs in namespaces of its own (mounts, network, processes, hostname), in a
// second process. No packet leaves them, and they end with all pods and mounts when the
// test ends for any reason. Everything is installed and built before, outside.
//
// This needs root on Linux. Kubernetes comes from the module test/cluster, containerd from
// test/containerd, and helm from test/chart.
package e2e

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package node tests the shim with a real container runtime. The tests of pkg/cri use a
// simulated runtime, and with it our assumptions about runtimes. Here containerd and
// runc start the containers, and the /etc/resolv.conf that a process inside one reads
// is compared with the decision of the policy engine. TestNode simulates the kubelet,
// so that it can send any request:
//
//	the test, as a kubelet --CRI--> Shim --CRI--> containerd --> runc, CNI
//	        |                                         ^
//	        +------- directly, without the shim ------+
//
// TestNRI has no shim: containerd calls the plugin of dnsconfigurer.
//
//	the test, as a kubelet --CRI--> containerd --NRI--> dnsconfigurer nri --> dnsconfigurer agent
//	                                    |                                            |
//	                                    +--> runc, CNI        the sandbox's file <---+
//
// TestFaults is about lookups and needs no containers: the C libraries of two pods with
// autopath and of two without, with the resolv.conf of the engine, query a node cache
// while it or one of its servers fails.
//
//	glibc, musl --> dnsconfigurer nodecache --> dnsconfigurer dns --> a server of the
//	                        |                                         test for all
//	                        +---------------------------------------> other names
//
// The runtime runs in its own namespaces (mounts, network, processes, hostname): no
// packet leaves them, and they end with all containers and mounts when the test ends
// for any reason. Images are built locally, without a registry. Package e2e has a real kubelet.
//
// This needs root on Linux. On Debian the test installs what is missing; it builds a second containerd
// and a second runc from the modules test/containerd and test/runc. Pods with a user namespace on tmpfs need Linux 6.3.
package node

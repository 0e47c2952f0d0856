// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package node runs the shim in front of a real container runtime. The tests of
// pkg/cri have a runtime that they made themselves, and with it our belief about
// runtimes. Here containerd and runc start the containers, and what a process
// inside one reads in /etc/resolv.conf is compared with what the policy engine
// says. TestNode plays the kubelet, and so can say anything in its place:
//
//	the test, as a kubelet --CRI--> Shim --CRI--> containerd --> runc, CNI
//	        |                                         ^
//	        +---- directly, for what happens without us ----+
//
// TestKubelet has a real one, without an API server: the test writes static pods, and
// looks at them through the kubelet as kubectl does. The shim is the command that
// people install.
//
//	static pods --> kubelet --CRI--> dnsconfigurer shim --CRI--> containerd
//	                   |                                             ^
//	                   +----------- the same pods, before -----------+
//
// TestFaults is about names, and needs no containers: the C libraries of two pods that
// have autopath and of two that have not, with the resolv.conf of the engine, ask a node
// cache, while it or one of those that it asks fails.
//
//	glibc, musl --> dnsconfigurer nodecache --> dnsconfigurer dns --> the internet,
//	                        |                                         a server of
//	                        +---------------------------------------> the test
//
// The runtime lives in namespaces of its own (mounts, network, processes, host
// name): the node that pods see is made by the test, no packet leaves it, and it
// ends with all its containers and mounts when the test does, however that ends.
// Images are built on the spot, no registry is asked. What the kubelet sets in the
// kernel, it sets in copies.
//
// This needs root on Linux. On Debian the test installs what is missing; the kubelet
// and a second containerd it builds from the modules test/cluster and test/containerd.
package node

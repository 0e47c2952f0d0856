// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package cri is a proxy between the kubelet and the container runtime that gives each
// pod sandbox the DNS configuration of the policy engine.
//
//	kubelet --CRI--> Shim --CRI--> container runtime
//	                  |
//	                  +-- RunPodSandbox: look up the pod, decide, replace dns_config
//
// Every call of every service is forwarded as the bytes received. The package knows one
// method of CRI, RunPodSandbox, and reads and writes a few fields of its request by their
// wire numbers. A newer kubelet or runtime loses nothing.
//
// The kubelet has already computed DNS for the pod when it sends the request, so the
// unchanged request is always safe. It is forwarded whenever something goes wrong: the
// pod is not found, the API server is unreachable, the message is malformed, the code
// panics. It is also forwarded if the engine, given the same input as the kubelet, does
// not compute the same DNS. The node's facts are then wrong, and wrong DNS must not
// replace right DNS.
//
// The API of this package may change in any release. The stable packages are
// pkg/policy, pkg/resolvconf and pkg/fqdn.
package cri

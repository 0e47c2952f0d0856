// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package cri stands between the kubelet and the container runtime and gives each
// pod sandbox the DNS configuration that the policy engine decides.
//
//	kubelet --CRI--> Shim --CRI--> container runtime
//	                  |
//	                  +-- RunPodSandbox: look up the pod, decide, edit dns_config
//
// Every call of every service passes as the bytes that came: the package knows one
// method of CRI and of that message the few fields that it needs, by their numbers
// on the wire. A runtime or a kubelet that is newer than this package loses
// nothing.
//
// The kubelet has already computed DNS for the pod when it asks for a sandbox. So
// the request as it came is always a safe answer, and it is the answer to every
// doubt: an unknown pod, an API server that is away, a message that cannot be
// read, a panic. The engine's answer replaces it only where the engine agrees with
// the kubelet about what the pod would get without us; otherwise our facts about
// the node are wrong, and wrong DNS must not replace right DNS.
package cri

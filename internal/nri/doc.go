// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package nri is the NRI plugin of dnsconfigurer: it passes the sandboxes and containers of a
// container runtime to the agent of the node.
//
// It is a process of its own because the runtime calls plugins one at a time, and because a plugin
// that registers can stall the start of pods while a container is being stopped
// (https://github.com/containerd/containerd/issues/14083). The relay has no configuration file,
// no client of the API server and no engine, so it is rarely restarted. Before it registers it asks
// the agent for the stops that are in flight. The agent may restart at any time.
//
// The relay never adjusts a container and never returns an error. It waits for the agent at
// most 200 milliseconds before a container is created, and not at all while the agent does not
// reply.
package nri

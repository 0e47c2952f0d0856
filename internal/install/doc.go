// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package install configures a kubelet to use the shim as its container runtime, and restores
// its configuration. It reads the kubelet's systemd unit, and writes files of its own if one of them
// decides the endpoint. All paths are below a root directory, so
// that it also works on a mounted image.
package install

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package bypass lets a node continue without its shim: the shim's socket becomes a link to that
// of the container runtime, so that the kubelet reconnects to the runtime without a restart. A
// record keeps systemd from starting the shim until the bypass ends by command.
package bypass

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package decision provides the input of a cri.Hook on a node, for the shim and the agent: pods
// of the API server and of static manifests, and the host's resolv.conf. It also provides the
// reporter of its outcomes.
package decision

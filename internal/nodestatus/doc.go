// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodestatus is the protocol between agent or shim and the commands that print and
// change its pods: HTTP with JSON over a unix socket that only root can use.
//
//	GET  /v1/status          v1alpha1.AgentStatus
//	GET  /v1/pods            v1alpha1.NodePods
//	POST /v1/refresh?pod=P   []v1alpha1.NodeResult, for the pod P (namespace/name), or all
//	POST /v1/restore?pod=P   the same
//
// It is not part of the server for metrics and health, because pods can connect to that one:
// the files of a pod and the commands are for root.
package nodestatus

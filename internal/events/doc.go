// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package events reports what the shim or the agent did with a sandbox: a line in the log, and an
// event on the pod if its DNS configuration was changed, or if the node facts forbid that.
//
// client-go has a recorder of events, too. Half of its code reads OpenAPI, which costs every process
// two megabytes of memory.
package events

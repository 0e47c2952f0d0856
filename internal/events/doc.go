// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package events reports what the shim did with a sandbox: a line in the log, and an event
// on the pod if the shim changed its DNS configuration, or if the node facts forbid that.
//
// client-go has a recorder of events, too. Half of its code reads OpenAPI, which costs every
// shim two megabytes of memory.
package events

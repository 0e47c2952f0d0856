// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package sandboxevent is the protocol between the NRI relay and the agent of a node: one JSON
// object in a line, over a unix socket. The relay sends events and the agent acknowledges those
// with a sequence number when it has done its work.
package sandboxevent

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package handover replaces a process by a new one of the same program without closing its
// sockets. The running process starts the new one and passes it open files. When the new process
// serves, the running one accepts no more work and completes what it has begun.
//
//	running process                        new process
//	Start: files, link, state  ------->    Receive
//	                           <-------    Ready: it serves
//	Confirm                    ------->    Ready returns
//	Watch: calls in progress   ------->    Draining.Run
//	                           <-------    Draining.Run: stop, when it is stopped itself
//
// A new process that ends, or reports an error, or is not ready in time changes nothing: Start
// ends it. The link of two processes is a pair of connected sockets. When a process hands over
// itself, it passes on its links, so that the newest process has a link to every process that has
// not ended. If the link of a process is closed, no newer process runs.
//
// github.com/cloudflare/tableflip is not used: it refuses to start a process while the previous one
// completes its work, it does not report why a new process failed, it cannot end a draining process
// early, and it removes unix sockets at exit.
package handover

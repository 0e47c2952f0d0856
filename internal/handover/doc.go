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
// not ended. A process whose link is closed knows that no newer process runs.
//
// github.com/cloudflare/tableflip does less and more than that: it refuses to start a process
// while the previous one completes its work, the parent cannot learn why a new process failed,
// a process cannot be asked to end early, and it removes unix sockets at exit.
package handover

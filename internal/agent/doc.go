// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package agent is the server of the command agent: it receives the sandboxes of the container
// runtime from the NRI relay, and lets package sandboxdns write their resolv.conf.
//
//	containerd, CRI-O --NRI--> relay --events--> agent --> resolv.conf of the sandbox
//	                                               |
//	                                               +-- pods of the API server, host's resolv.conf
package agent

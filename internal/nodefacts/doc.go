// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodefacts makes the node of a policy engine from a configuration file, the flags of a command
// and the files of a kubelet. Its own package, because commands need it that run no server.
package nodefacts

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodefacts infers the node facts of a kubelet from the DNS configurations that it has
// computed for pods. Some nodes keep these facts in flags only, or in a file that the agent cannot
// read; the kubelet's answers have them in any case.
package nodefacts

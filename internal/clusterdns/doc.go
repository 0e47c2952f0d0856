// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package clusterdns runs the server of the command dns: a DNS server for the names of the
// cluster, which come from the API server or from manifests.
package clusterdns

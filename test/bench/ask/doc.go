// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package ask puts questions to a DNS server, and brings replies into a form in which
// those of two servers can be compared.
package ask

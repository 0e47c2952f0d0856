// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package ask sends questions to a DNS server and normalizes replies, so that those of
// two servers can be compared.
package ask

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package upstream holds the replies of the resolver that the DNS servers under test
// forward to: they follow from the question alone.
package upstream

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package upstream is the rest of the DNS for a cluster under test: a resolver on the
// loopback interface whose answers follow from the question alone.
package upstream

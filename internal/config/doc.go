// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package config reads and validates a file of a v1alpha1 kind and the flags that override its fields, by
// the tags of the fields. It links none of the programs that the file is for: each of them adds its checks.
package config

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package config reads and validates the configuration of the commands: a file of a
// v1alpha1 kind, the flags that override its fields, and for facts about a node the
// kubelet's own configuration file.
package config

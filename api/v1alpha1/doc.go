// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the wire form of dnsconfigurer: its configuration files and
// the JSON that its commands print.
//
// Files are decoded strictly: an unknown field is an error that names its path.
// Every field may be left out; its comment says what that means. Within v1alpha1
// fields are added and not removed or changed. The JSON output is stable in the
// same way: a reader must expect fields and codes that it does not know.
package v1alpha1

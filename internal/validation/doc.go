// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package validation checks the pods and Services of manifests with the rules of admission, for
// the command validate. It is separate from package admission because that knows no files: one
// object at a time is reviewed there, a whole input with its Services here.
package validation

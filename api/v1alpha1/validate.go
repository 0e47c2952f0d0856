// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// ValidatedObject is one line of `validate -o json`: an object with pods and what is
// wrong with it. Findings is never null, and empty when nothing is wrong.
type ValidatedObject struct {
	File     string `json:"file"`
	Document int    `json:"document"` // of the file, 1 is the first
	Source   string `json:"source"`   // Helm's template; "": the document names none

	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`

	Findings []Finding `json:"findings"`
}

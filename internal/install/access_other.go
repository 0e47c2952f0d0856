// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package install

import "os"

// checkAccess returns an error unless dir exists.
func checkAccess(dir string) error {
	_, err := os.Stat(dir)
	return err
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxfile

import "errors"

var (
	// ErrForeign is the error for a path that is not the resolv.conf of the sandbox in one of
	// the runtime's directories, such as a volume that the pod mounts instead.
	ErrForeign = errors.New("not the runtime's file of the sandbox")

	// ErrTooLarge is the error for a text or a file that does not fit into MaxSize.
	ErrTooLarge = errors.New("larger than one page")

	// ErrChanged is the error of Replace for a file that does not have the expected text.
	ErrChanged = errors.New("the file has changed")
)

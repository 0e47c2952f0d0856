// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package multierr takes joined errors apart. Validation reports all problems of a file
// at once, joined by errors.Join; a problem is printed or logged on a line of its own.
package multierr

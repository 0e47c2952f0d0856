// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package pages reads the code blocks of the documentation, so that tests can run the commands in
// them. A comment before a block says where else it runs, or why it does not:
//
//	<!-- run by test/e2e -->
//
//	    helm uninstall dnsconfigurer
package pages

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/spelling"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Codes returns the codes of all findings in objects and nodes.
func Codes() []policy.Code {
	return []policy.Code{
		CodeNoNameservers, CodeInvalidNameserver, CodeTooManyServers, CodeInvalidSearch, CodeTooManySearches, CodeSearchListTooLong,
		CodeUnnamedOption, CodeOverrideConflict, CodeGeneratedHostname, CodeOrdinalLimit, CodeStatefulSetName, CodeFQDNWithoutDomain,
		CodeHostnameCollision, CodeUnknownOption, CodeOptionValue, CodeRootSearch, CodeAutopathNeeds, CodeInvalidNodeName,
		CodeInvalidName, CodeInvalidNamespace, CodeInvalidHostAlias,

		CodeServiceMissing, CodeServiceNotHeadless, CodeSubdomainNoService, CodeSelectorNoMatch, CodeInvalidServiceName,
		CodeInvalidExternalName, CodeExternalNameAddress,

		CodeAnnotationPlace, CodeAnnotationValue,

		policy.CodeUnknownPolicy, policy.CodeUnknownOverride, policy.CodeForbiddenOverride, policy.CodeHostNetworkDefault,
		policy.CodeMissingClusterDNS, policy.CodeNodeMissingDNS, policy.CodeHostFileRefused, policy.CodeHostFileNotNeeded,
		policy.CodeWindowsHostNet, policy.CodeWindowsSuffix, policy.CodeAutopathUnavailable, policy.CodeForeignNameserver,
		policy.CodeUnsafeValue, policy.CodeEmptyConfig, policy.CodeLoopbackServer, policy.CodeUnusableDomain,
		policy.CodeInvalidName, policy.CodeInvalidHostname, policy.CodeInvalidSubdomain, policy.CodeInvalidOverride,
		policy.CodeHostnameCut, policy.CodeFQDNTooLong, policy.CodeServerLimit, policy.CodeSearchLimit, policy.CodeMuslSearchLine,
		policy.CodeOldGlibcSearch, policy.CodeGlibcCrashes, policy.CodeMuslCrashes, policy.CodeNodeHostFile,
		policy.CodeIgnoredHostLine, policy.CodeInvalidClusterDNS, policy.CodeMisspelledField, policy.CodeUplinkUnusable,
		policy.CodeUplinkUsed,
	}
}

// CheckCode returns an error if no finding has the code. It names the code that may be meant.
func CheckCode(code string) error {
	var known []string
	for _, c := range Codes() {
		if string(c) == code {
			return nil
		}
		known = append(known, string(c))
	}
	if meant, ok := spelling.Closest(code, known); ok {
		return fmt.Errorf("unknown code %s: did you mean %s?", excerpt.Quote(code), meant)
	}
	return fmt.Errorf("unknown code %s: docs/checks.md lists the codes", excerpt.Quote(code))
}

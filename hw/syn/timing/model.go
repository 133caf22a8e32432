package timing

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"go/scanner"
	"go/token"
	"sync"
)

//go:embed table.go cells.go fit.go sta.go netlist.go
var sources embed.FS

// Model returns a hash of the source code that determines the figures: the tables and the analysis, without comments.
// Figures with different models are not comparable.
var Model = sync.OnceValue(func() string {
	h := sha256.New()
	for _, name := range []string{"table.go", "cells.go", "fit.go", "sta.go", "netlist.go"} {
		text, err := sources.ReadFile(name)
		if err != nil {
			panic(err) // the file is embedded
		}
		fmt.Fprintln(h, name)
		var s scanner.Scanner
		s.Init(token.NewFileSet().AddFile(name, -1, len(text)), text, nil, 0)
		for {
			_, tok, lit := s.Scan()
			if tok == token.EOF {
				break
			}
			fmt.Fprintf(h, "%s %q\n", tok, lit)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
})

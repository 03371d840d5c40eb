// Fills in the variables of texts as containerlab does (core/file.go): a list of texts in, a list of results out, in JSON.
package main

import (
	"encoding/json"
	"os"

	"github.com/hellt/envsubst"
)

type answer struct {
	Text  string `json:"text"`
	Error string `json:"error"`
}

func main() {
	var texts []string
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		panic(err)
	}
	answers := make([]answer, len(texts))
	for n, text := range texts {
		out, err := envsubst.BytesRestrictedNoReplace([]byte(text), false, false, true, true)
		if err != nil {
			answers[n].Error = err.Error()
		}
		answers[n].Text = string(out)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		panic(err)
	}
}

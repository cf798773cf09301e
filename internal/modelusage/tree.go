package modelusage

// meaning says what the value of a member is for.
type meaning uint8

// The meanings below countKinds are the counts of a usage.
const (
	isUsage   meaning = countKinds + iota // an object of counts
	isType                                // the type of an event; terminal types end the stream
	isFinish                              // a text where a candidate, or the whole answer, has ended
	isChoices                             // an array that is empty in the event that AddIncludeUsage adds
	isNothing                             // a value on the way to others
)

// member is a member of an object that counts. Members of the same name elsewhere in the answer do not.
type member struct {
	name    string
	meaning meaning
	inside  []member // of an object, or of each object of an array
	list    bool     // the value may be an array
}

// The usages of the formats.
var (
	openAIUsage = []member{
		{name: "prompt_tokens", meaning: inputCount},
		{name: "completion_tokens", meaning: outputCount},
		{name: "total_tokens", meaning: totalCount},
		{name: "prompt_tokens_details", meaning: cachedCount, inside: []member{{name: "cached_tokens", meaning: cachedCount}}},
	}
	responsesUsage = []member{
		{name: "input_tokens", meaning: inputCount},
		{name: "output_tokens", meaning: outputCount},
		{name: "total_tokens", meaning: totalCount},
		{name: "input_tokens_details", meaning: cachedCount, inside: []member{{name: "cached_tokens", meaning: cachedCount}}},
	}
	anthropicUsage = []member{
		{name: "input_tokens", meaning: inputCount},
		{name: "output_tokens", meaning: outputCount},
		{name: "cache_read_input_tokens", meaning: cachedCount},
		{name: "cache_creation_input_tokens", meaning: writtenCount},
	}
	geminiUsage = []member{
		{name: "promptTokenCount", meaning: inputCount},
		{name: "candidatesTokenCount", meaning: outputCount},
		{name: "totalTokenCount", meaning: totalCount},
		{name: "thoughtsTokenCount", meaning: thoughtsCount},
		{name: "cachedContentTokenCount", meaning: cachedCount},
		{name: "toolUsePromptTokenCount", meaning: toolInputCount},
	}
)

// The answers and events of the formats.
var (
	nothing = &member{meaning: isNothing}
	openAI  = &member{meaning: isNothing, inside: []member{
		{name: "usage", meaning: isUsage, inside: openAIUsage},
		{name: "x_groq", meaning: isNothing, inside: []member{{name: "usage", meaning: isUsage, inside: openAIUsage}}},
	}}
	responses      = &member{meaning: isNothing, inside: []member{{name: "usage", meaning: isUsage, inside: responsesUsage}}}
	responsesEvent = &member{meaning: isNothing, inside: []member{
		{name: "type", meaning: isType},
		{name: "response", meaning: isNothing, inside: responses.inside},
	}}
	anthropic      = &member{meaning: isNothing, inside: []member{{name: "usage", meaning: isUsage, inside: anthropicUsage}}}
	anthropicEvent = &member{meaning: isNothing, inside: []member{
		{name: "type", meaning: isType},
		{name: "message", meaning: isNothing, inside: anthropic.inside},
		anthropic.inside[0],
	}}
	geminiInside = []member{
		{name: "usageMetadata", meaning: isUsage, inside: geminiUsage},
		{name: "candidates", meaning: isNothing, list: true, inside: []member{{name: "finishReason", meaning: isFinish}}},
		{name: "promptFeedback", meaning: isNothing, inside: []member{{name: "blockReason", meaning: isFinish}}},
	}
	gemini      = &member{meaning: isNothing, list: true, inside: geminiInside}
	geminiEvent = &member{meaning: isNothing, inside: geminiInside}

	// trimmed is what a Trimmer looks at.
	trimmed = &member{meaning: isNothing, inside: []member{
		{name: "choices", meaning: isChoices, list: true},
		{name: "usage", meaning: isUsage, inside: openAIUsage},
	}}
)

// tree returns what counts in an answer of a format, or in each event of its stream.
func tree(f Format, stream bool) *member {
	switch f {
	case OpenAIChat, OpenAICompletions, OpenAIEmbeddings:
		return openAI
	case OpenAIResponses:
		if stream {
			return responsesEvent
		}
		return responses
	case AnthropicMessages:
		if stream {
			return anthropicEvent
		}
		return anthropic
	case GeminiGenerate:
		if stream {
			return geminiEvent
		}
		return gemini
	}
	return nothing
}

// endsStream reports whether an event of a type is the last one of its stream.
func endsStream(kind []byte) bool {
	switch string(kind) {
	case "message_stop", "response.completed", "response.incomplete", "response.failed":
		return true
	}
	return false
}

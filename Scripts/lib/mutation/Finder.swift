// SPDX-License-Identifier: Apache-2.0
import SwiftSyntax

/// Finds places in a file where a mutant can change the code, and adds the code of each mutant beside the original code.
///
/// Mutants negate conditions, make optional bindings and patterns fail, swap comparisons, and leave out effects. Code that only
/// asserts is not changed. The added code calls functions in `package/MutantSwitches.swift`.
final class Finder: SyntaxVisitor {
    private let file: String
    private let lines: SourceLocationConverter
    private(set) var edits = SourceEdits()
    private(set) var mutants: [Mutant] = []
    private var nextNumber: Int
    /// The comparisons that are a whole condition. For such a `==`, a mutant that swaps it would equal the mutant that negates
    /// the condition.
    private var negated: Set<SyntaxIdentifier> = []

    init(file: String, tree: SourceFileSyntax, firstNumber: Int) {
        self.file = file
        nextNumber = firstNumber
        lines = SourceLocationConverter(fileName: file, tree: tree)
        super.init(viewMode: .sourceAccurate)
        walk(tree)
    }

    private func add(_ kind: Mutant.Kind, at node: some SyntaxProtocol, _ change: String) -> Int {
        defer { nextNumber += 1 }
        mutants.append(
            Mutant(
                number: nextNumber, kind: kind, file: file,
                line: node.startLocation(converter: lines).line, function: node.nameOfFunction,
                text: onOneLine(node.trimmedDescription), change: change))
        return nextNumber
    }

    private func negate(_ condition: ExprSyntax) {
        let inner = condition.withoutParentheses
        guard !negated.contains(inner.id) else { return }
        negated.insert(inner.id)
        let number = add(.negate, at: inner, "negated")
        edits.wrap(condition.trimmedBytes, "mutantNegated(\(number), ", ")")
    }

    override func visit(_ node: ConditionElementSyntax) -> SyntaxVisitorContinueKind {
        switch node.condition {
        case .expression(let condition): negate(condition)
        case .optionalBinding(let binding):
            let number = add(.fail, at: node, "finds nothing")
            if let value = binding.initializer?.value {
                edits.wrap(value.trimmedBytes, "mutantFound(\(number), ", ")")
            } else {
                let name = binding.pattern.trimmedDescription
                edits.wrap(binding.pattern.trimmedBytes, "", " = mutantFound(\(number), \(name))")
            }
        case .matchingPattern(let pattern):
            let number = add(.fail, at: node, "does not match")
            edits.wrap(pattern.trimmedBytes, "", ", !mutantIsAlive(\(number))")
        default: break
        }
        return .visitChildren
    }

    override func visit(_ node: WhereClauseSyntax) -> SyntaxVisitorContinueKind {
        negate(node.condition)
        return .visitChildren
    }

    override func visit(_ node: RepeatStmtSyntax) -> SyntaxVisitorContinueKind {
        negate(node.condition)
        return .visitChildren
    }

    override func visit(_ node: TernaryExprSyntax) -> SyntaxVisitorContinueKind {
        negate(node.condition)
        return .visitChildren
    }

    /// No mutant is made in a function that only asserts, because such a function does not affect any result.
    override func visit(_ node: FunctionDeclSyntax) -> SyntaxVisitorContinueKind {
        node.name.text == "checkInvariants" ? .skipChildren : .visitChildren
    }

    private static let comparisons = [
        "<": "mutantIsLess", "<=": "mutantIsAtMost", ">": "mutantIsMore", ">=": "mutantIsAtLeast",
        "==": "mutantIsEqual",
        "!=": "mutantIsUnequal",
    ]
    private static let swapped = ["<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="]

    override func visit(_ node: InfixOperatorExprSyntax) -> SyntaxVisitorContinueKind {
        guard let name = node.operatorName else { return .visitChildren }
        if name == "&&" || name == "||" {
            negate(node.leftOperand)
            negate(node.rightOperand)
        } else if let function = Self.comparisons[name], let swapped = Self.swapped[name] {
            let isEquality = name == "==" || name == "!="
            guard !isEquality || !negated.contains(node.id) else { return .visitChildren }
            let number = add(.swap, at: node, swapped)
            if node.rightOperand.is(NilLiteralExprSyntax.self) {
                let isNil = name == "==" ? "mutantIsNil" : "mutantIsNotNil"
                edits.wrap(node.trimmedBytes, "\(isNil)(\(number), ", ")")
                let rest = node.operator.trimmedBytes.lowerBound..<node.rightOperand.trimmedBytes.upperBound
                edits.replace(rest, with: "")
            } else {
                edits.wrap(node.trimmedBytes, "\(function)(\(number), ", ")")
                edits.replace(node.operator.trimmedBytes, with: ",")
            }
        }
        return .visitChildren
    }

    override func visit(_ node: FunctionCallExprSyntax) -> SyntaxVisitorContinueKind {
        if let callee = node.calledExpression.as(DeclReferenceExprSyntax.self) {
            switch callee.baseName.text {
            case "assert", "precondition", "preconditionFailure", "assertionFailure", "fatalError":
                return .skipChildren
            case "min", "max":
                swapExtremes(node, callee)
            default: break
            }
        } else if let member = node.calledExpression.as(MemberAccessExprSyntax.self), member.base != nil,
            ["min", "max"].contains(member.declName.baseName.text)
        {
            swapExtremes(node, member)
        }
        return .visitChildren
    }

    /// Swaps the function in a call such as `min(a, b)`.
    private func swapExtremes(_ node: FunctionCallExprSyntax, _ callee: DeclReferenceExprSyntax) {
        guard let first = node.arguments.first else { return }
        let isLeast = callee.baseName.text == "min"
        let number = add(.swap, at: node, isLeast ? "max" : "min")
        edits.replace(callee.trimmedBytes, with: isLeast ? "mutantLeast" : "mutantGreatest")
        edits.wrap(first.trimmedBytes, "\(number), ", "")
    }

    /// Swaps the method in a call such as `list.min()`, `list.min(by: …)` or `list.min { … }`.
    private func swapExtremes(_ node: FunctionCallExprSyntax, _ callee: MemberAccessExprSyntax) {
        let name = callee.declName.baseName
        let isLeast = name.text == "min"
        let number = add(.swap, at: node, isLeast ? "max" : "min")
        edits.replace(name.trimmedBytes, with: isLeast ? "mutantLeast" : "mutantGreatest")
        if let parenthesis = node.leftParen {
            edits.wrap(parenthesis.trimmedBytes, "", "\(number)" + (node.arguments.isEmpty ? "" : ", "))
        } else {
            edits.wrap(name.trimmedBytes, "", "(\(number))")
        }
    }

    override func visit(_ node: CodeBlockItemSyntax) -> SyntaxVisitorContinueKind {
        if let expression = node.item.as(ReturnStmtSyntax.self)?.expression {
            // In a function without a result, a call after `return` is also an effect.
            guard expression.is(FunctionCallExprSyntax.self), node.isInFunctionWithoutResult,
                !isAssertion(node)
            else { return .visitChildren }
            let number = add(.drop, at: expression, "dropped")
            edits.wrap(node.trimmedBytes, "if mutantIsAlive(\(number)) { return }; ", "")
        } else if let expression = node.item.as(ExprSyntax.self), isEffect(expression), !node.isValue {
            let number = add(.drop, at: expression, "dropped")
            edits.wrap(node.trimmedBytes, "if !mutantIsAlive(\(number)) { ", " }")
        }
        return .visitChildren
    }

    private func isAssertion(_ node: CodeBlockItemSyntax) -> Bool {
        let text = node.trimmedDescription
        return ["assert(", "precondition(", "preconditionFailure(", "fatalError("].contains {
            text.hasPrefix($0) || text.hasPrefix("return " + $0)
        }
    }

    /// Whether an expression is an effect: a call with an unused result, or an assignment to a variable that already has a
    /// value.
    private func isEffect(_ expression: ExprSyntax) -> Bool {
        if let call = expression.as(FunctionCallExprSyntax.self) {
            let name = call.calledExpression.trimmedDescription
            return !["assert", "precondition", "preconditionFailure", "fatalError"].contains(name)
        }
        guard let infix = expression.as(InfixOperatorExprSyntax.self) else { return false }
        if infix.operator.is(AssignmentExprSyntax.self) {
            return !infix.isInitialisation
        }
        return ["+=", "-=", "*=", "/=", "&=", "|=", "^="].contains(infix.operatorName)
    }
}
